;; error: output
;; A title of 100 MiB beyond the end of memory.
(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
  (drop (call $recommendation))
  (i32.store (i32.const 2072) (i32.const 104857600))
  (i32.const 1792))
