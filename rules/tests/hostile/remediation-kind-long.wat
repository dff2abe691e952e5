;; error: invalid
;; message: recommendations[0].remediation.kind is
;; A kind of 65 bytes.
(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
  (drop (call $recommendation))
  (i32.store (i32.const 2148) (i32.const 1))
  (i32.store (i32.const 2152) (i32.const 336))
  (i32.store (i32.const 2156) (i32.const 3))
  (i32.store (i32.const 2160) (i32.const 4096))
  (i32.store (i32.const 2164) (i32.const 1))
  (i32.store (i32.const 4096) (i32.const 336))
  (i32.store (i32.const 4100) (i32.const 3))
  (i32.store (i32.const 4104) (i32.const 336))
  (i32.store (i32.const 4108) (i32.const 3))
  (memory.fill (i32.const 8192) (i32.const 97) (i32.const 65))
  (i32.store (i32.const 2152) (i32.const 8192))
  (i32.store (i32.const 2156) (i32.const 65))
  (i32.const 1792))
