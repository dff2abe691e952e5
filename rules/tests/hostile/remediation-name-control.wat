;; error: invalid
;; message: recommendations[0].remediation contains control characters
;; The name of a parameter moves the cursor of a terminal.
(data (i32.const 512) "\1b[2J")
(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
  (drop (call $recommendation))
  (i32.store (i32.const 2148) (i32.const 1))
  (i32.store (i32.const 2152) (i32.const 336))
  (i32.store (i32.const 2156) (i32.const 3))
  (i32.store (i32.const 2160) (i32.const 4096))
  (i32.store (i32.const 2164) (i32.const 1))
  (i32.store (i32.const 4096) (i32.const 512))
  (i32.store (i32.const 4100) (i32.const 4))
  (i32.store (i32.const 4104) (i32.const 336))
  (i32.store (i32.const 4108) (i32.const 3))
  (i32.const 1792))
