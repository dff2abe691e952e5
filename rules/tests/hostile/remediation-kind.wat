;; error: invalid
;; message: recommendations[0].remediation.kind is 'Share it', expected
(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
  (drop (call $recommendation))
  (i32.store (i32.const 2148) (i32.const 1))
  (i32.store (i32.const 2152) (i32.const 344))
  (i32.store (i32.const 2156) (i32.const 8))
  (i32.const 1792))
