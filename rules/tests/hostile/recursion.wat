;; error: trap
;; message: stack
(func $deeper (param i64) (result i64)
  (i64.add (call $deeper (i64.add (local.get 0) (i64.const 1))) (i64.const 1)))
(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
  (drop (call $deeper (i64.const 0)))
  (call $recommendation))
