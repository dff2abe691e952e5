;; error: invalid
;; message: manifest.settings-schema
;; when: load
;; A schema of 60,000 nested arrays, to overflow the stack of a parser.
(data (i32.const 512) "evil")
(data (i32.const 1024)
  "\00\02\00\00\04\00\00\00" "\00\02\00\00\01\00\00\00"
  "\00\02\00\00\01\00\00\00" "\00\00\01\00\60\ea\00\00")
(func (export "phasemeter:policy/policy@0.1.0#describe") (result i32)
  (memory.fill (i32.const 65536) (i32.const 91) (i32.const 60000))
  (i32.const 1024))
