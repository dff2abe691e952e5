;; error: out_of_fuel
;; when: load
;; world: self-testing
(func (export "phasemeter:policy/self-test@0.1.0#run") (result i32)
  (loop $again (br $again))
  (unreachable))
