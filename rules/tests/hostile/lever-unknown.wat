;; error: none
;; The recommendation is ignored, with a warning.
(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
  (drop (call $recommendation))
  (i32.store (i32.const 2060) (i32.const 320))
  (i32.store (i32.const 2064) (i32.const 11))
  (i32.const 1792))
