;; error: invalid
;; message: recommendations[0].action has 1001 bytes
(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
  (drop (call $recommendation))
  (memory.fill (i32.const 8192) (i32.const 97) (i32.const 1001))
  (i32.store (i32.const 2076) (i32.const 8192))
  (i32.store (i32.const 2080) (i32.const 1001))
  (i32.const 1792))
