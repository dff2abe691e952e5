;; error: memory
;; message: requested 4294967296 bytes
(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
  (drop (memory.grow (i32.const 65534)))
  (call $recommendation))
