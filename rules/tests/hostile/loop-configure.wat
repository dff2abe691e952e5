;; error: out_of_fuel
;; when: load
(func (export "phasemeter:policy/policy@0.1.0#configure") (param i32 i32) (result i32)
  (loop $again (br $again))
  (unreachable))
