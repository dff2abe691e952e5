;; error: invalid
;; message: recommendations[0].evidence has the unit
;; A unit of 33 bytes.
(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
  (drop (call $recommendation))
  (memory.fill (i32.const 8192) (i32.const 97) (i32.const 33))
  (i32.store (i32.const 3072) (i32.const 336))
  (i32.store (i32.const 3076) (i32.const 3))
  (i32.store (i32.const 3088) (i32.const 8192))
  (i32.store (i32.const 3092) (i32.const 33))
  (i32.store (i32.const 2128) (i32.const 3072))
  (i32.store (i32.const 2132) (i32.const 1))
  (i32.const 1792))
