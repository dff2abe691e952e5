;; error: memory
;; A title of 100 MiB, more than the memory limit.
(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
  (drop (call $recommendation))
  (i32.store (i32.const 2068)
    (call $alloc (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 104857600)))
  (i32.store (i32.const 2072) (i32.const 104857600))
  (i32.const 1792))
