;; error: invalid
;; message: recommendations[0].evidence has 33 items
;; 33 numbers of zeros: empty names and units.
(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
  (drop (call $recommendation))
  (i32.store (i32.const 2128) (i32.const 3072))
  (i32.store (i32.const 2132) (i32.const 33))
  (i32.const 1792))
