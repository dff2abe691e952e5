;; error: out_of_fuel
;; when: load
(func (export "phasemeter:policy/policy@0.1.0#describe") (result i32)
  (loop $again (br $again))
  (unreachable))
