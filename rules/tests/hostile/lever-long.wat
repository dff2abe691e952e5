;; error: none
;; A lever of a thousand bytes voids its recommendation only.
(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
  (drop (call $recommendation))
  (memory.fill (i32.const 8192) (i32.const 97) (i32.const 1000))
  (i32.store (i32.const 2060) (i32.const 8192))
  (i32.store (i32.const 2064) (i32.const 1000))
  (i32.const 1792))
