;; error: memory
;; message: table limit
(table $t 1 funcref)
(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
  (loop $again
    (drop (table.grow $t (ref.null func) (i32.const 1000)))
    (br $again))
  (unreachable))
