;; error: output
;; A million pieces of evidence beyond the end of memory.
(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
  (drop (call $recommendation))
  (i32.store (i32.const 2128) (i32.const 3072))
  (i32.store (i32.const 2132) (i32.const 1000000))
  (i32.const 1792))
