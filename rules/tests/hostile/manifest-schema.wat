;; error: invalid
;; message: manifest.settings-schema
;; when: load
;; A schema that is not JSON.
(data (i32.const 512) "evil")
(data (i32.const 1024)
  "\00\02\00\00\04\00\00\00" "\00\02\00\00\01\00\00\00"
  "\00\02\00\00\01\00\00\00" "\00\02\00\00\04\00\00\00")
(func (export "phasemeter:policy/policy@0.1.0#describe") (result i32)
  (i32.const 1024))
