;; error: output
;; message: utf-8
;; A title that is not UTF-8.
(data (i32.const 512) "\c3\28")
(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
  (drop (call $recommendation))
  (i32.store (i32.const 2068) (i32.const 512))
  (i32.store (i32.const 2072) (i32.const 2))
  (i32.const 1792))
