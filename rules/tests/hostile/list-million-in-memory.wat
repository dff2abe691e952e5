;; error: memory
;; A million recommendations in allocated memory.
(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
  (drop (call $recommendation))
  (i32.store (i32.const 1796)
    (call $alloc (i32.const 0) (i32.const 0) (i32.const 8) (i32.const 120000000)))
  (i32.store (i32.const 1800) (i32.const 1000000))
  (i32.const 1792))
