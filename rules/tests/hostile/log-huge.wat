;; error: output
;; A log line of 2 MiB.
(import "phasemeter:policy/log@0.1.0" "log" (func $log (param i32 i32 i32)))
(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
  (drop (memory.grow (i32.const 40)))
  (call $log (i32.const 1) (i32.const 65536) (i32.const 2097152))
  (call $recommendation))
