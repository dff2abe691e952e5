;; error: guest
;; message: It idles.
(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
  (drop (call $recommendation))
  (i32.store8 (i32.const 1792) (i32.const 1))
  (i32.store (i32.const 1796) (i32.const 368))
  (i32.store (i32.const 1800) (i32.const 9))
  (i32.const 1792))
