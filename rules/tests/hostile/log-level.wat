;; error: output
;; An invalid log level.
(import "phasemeter:policy/log@0.1.0" "log" (func $log (param i32 i32 i32)))
(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
  (call $log (i32.const 9) (i32.const 352) (i32.const 14))
  (call $recommendation))
