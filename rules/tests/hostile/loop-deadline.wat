;; error: deadline
;; message: 1000 ms
;; limits: deadline
(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
  (loop $again (br $again))
  (unreachable))
