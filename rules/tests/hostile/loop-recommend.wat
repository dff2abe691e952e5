;; error: out_of_fuel
;; message: 500000000
(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
  (loop $again (br $again))
  (unreachable))
