;; error: invalid
;; message: recommendations[0].gpus has 0 items
(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
  (drop (call $recommendation))
  (i32.store (i32.const 2140) (i32.const 0))
  (i32.const 1792))
