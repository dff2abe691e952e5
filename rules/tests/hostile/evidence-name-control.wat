;; error: invalid
;; message: recommendations[0].evidence contains control characters
;; A name that moves the cursor of a terminal.
(data (i32.const 512) "1" "\1b[2J")
(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
  (drop (call $recommendation))
  (i32.store (i32.const 3072) (i32.const 513))
  (i32.store (i32.const 3076) (i32.const 4))
  (i32.store (i32.const 3088) (i32.const 512))
  (i32.store (i32.const 3092) (i32.const 1))
  (i32.store (i32.const 2128) (i32.const 3072))
  (i32.store (i32.const 2132) (i32.const 1))
  (i32.const 1792))
