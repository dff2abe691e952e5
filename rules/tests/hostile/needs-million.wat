;; error: output
;; A million needs beyond the end of memory.
(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
  (drop (call $recommendation))
  (i32.store (i32.const 1804) (i32.const 4096))
  (i32.store (i32.const 1808) (i32.const 1000000))
  (i32.const 1792))
