;; error: memory
;; message: memory limit
(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
  (loop $again
    (drop (memory.grow (i32.const 16)))
    (br $again))
  (unreachable))
