;; error: trap
;; when: load
(func (export "phasemeter:policy/policy@0.1.0#describe") (result i32)
  (unreachable))
