;; error: invalid
;; message: recommendations[0].title has 121 bytes
(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
  (drop (call $recommendation))
  (memory.fill (i32.const 8192) (i32.const 97) (i32.const 121))
  (i32.store (i32.const 2068) (i32.const 8192))
  (i32.store (i32.const 2072) (i32.const 121))
  (i32.const 1792))
