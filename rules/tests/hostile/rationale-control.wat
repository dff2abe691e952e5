;; error: invalid
;; message: recommendations[0].rationale contains control characters
(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
  (drop (call $recommendation))
  (memory.fill (i32.const 8192) (i32.const 8) (i32.const 3))
  (i32.store (i32.const 2084) (i32.const 8192))
  (i32.store (i32.const 2088) (i32.const 3))
  (i32.const 1792))
