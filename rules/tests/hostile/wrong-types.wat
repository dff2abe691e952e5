;; error: load.not_a_policy
;; when: load
;; world: wrong-types
(func (export "phasemeter:policy/policy@0.1.0#describe") (result i32) (i32.const 0))
(func (export "phasemeter:policy/policy@0.1.0#configure") (param i32) (result i32) (i32.const 0))
(func (export "phasemeter:policy/recommender@0.1.0#recommend") (param i32 i32) (result i32)
  (i32.const 0))
