;; error: invalid
;; message: manifest.name
;; when: load
;; A name that is a path.
(data (i32.const 512) "../../x")
(data (i32.const 1024)
  "\00\02\00\00\07\00\00\00" "\00\02\00\00\01\00\00\00"
  "\00\02\00\00\01\00\00\00" "\00\00\00\00\00\00\00\00")
(func (export "phasemeter:policy/policy@0.1.0#describe") (result i32)
  (i32.const 1024))
