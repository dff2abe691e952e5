;; error: output
;; A million GPUs of one page of memory.
(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
  (drop (call $recommendation))
  (i32.store (i32.const 2136) (i32.const 400))
  (i32.store (i32.const 2140) (i32.const 1000000))
  (i32.const 1792))
