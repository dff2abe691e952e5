;; error: invalid
;; message: recommendations[0].action contains control characters
;; A paragraph may have line breaks, and no other control characters.
(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
  (drop (call $recommendation))
  (memory.fill (i32.const 8192) (i32.const 27) (i32.const 3))
  (i32.store (i32.const 2076) (i32.const 8192))
  (i32.store (i32.const 2080) (i32.const 3))
  (i32.const 1792))
