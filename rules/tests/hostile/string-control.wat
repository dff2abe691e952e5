;; error: invalid
;; message: recommendations[0].title contains control characters
;; A title with terminal escape sequences.
(data (i32.const 512) "\1b[31mred")
(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
  (drop (call $recommendation))
  (i32.store (i32.const 2068) (i32.const 512))
  (i32.store (i32.const 2072) (i32.const 8))
  (i32.const 1792))
