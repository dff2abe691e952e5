;; error: invalid
;; message: recommendations[0].gpus
;; One GPU twice.
(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
  (drop (call $recommendation))
  (i32.store (i32.const 4096) (i32.const 384))
  (i32.store (i32.const 4100) (i32.const 5))
  (i32.store (i32.const 4104) (i32.const 384))
  (i32.store (i32.const 4108) (i32.const 5))
  (i32.store (i32.const 2136) (i32.const 4096))
  (i32.store (i32.const 2140) (i32.const 2))
  (i32.const 1792))
