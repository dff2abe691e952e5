;; error: none
;; Logs a thousand lines: the first 32 are kept, the others counted.
(import "phasemeter:policy/log@0.1.0" "log" (func $log (param i32 i32 i32)))
(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
  (local $i i32)
  (loop $again
    (call $log (i32.const 1) (i32.const 352) (i32.const 14))
    (local.set $i (i32.add (local.get $i) (i32.const 1)))
    (br_if $again (i32.lt_u (local.get $i) (i32.const 1000))))
  (call $recommendation))
