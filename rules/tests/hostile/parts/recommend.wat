(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
  (call $recommendation))
