;; error: invalid
;; message: needs has 65 items, expected 0 to 64
;; 65 needs of zeros: empty texts and no GPUs.
(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
  (drop (call $recommendation))
  (i32.store (i32.const 1804) (i32.const 8192))
  (i32.store (i32.const 1808) (i32.const 65))
  (i32.const 1792))
