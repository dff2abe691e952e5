;; error: deadline
;; Host calls take time but hardly any fuel.
;; limits: deadline
(import "phasemeter:policy/log@0.1.0" "log" (func $log (param i32 i32 i32)))
(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
  (loop $again
    (call $log (i32.const 1) (i32.const 352) (i32.const 14))
    (br $again))
  (unreachable))
