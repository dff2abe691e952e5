;; error: invalid
;; message: recommendations[0].code is
;; A code of escape characters.
(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
  (drop (call $recommendation))
  (memory.fill (i32.const 8192) (i32.const 27) (i32.const 3))
  (i32.store (i32.const 2048) (i32.const 8192))
  (i32.store (i32.const 2052) (i32.const 3))
  (i32.const 1792))
