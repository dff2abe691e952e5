(data (i32.const 256) "evil")
(data (i32.const 264) "1")
(data (i32.const 272) "A hostile guest.")
;; manifest: name, version, summary, settings-schema
(data (i32.const 1024)
  "\00\01\00\00\04\00\00\00" "\08\01\00\00\01\00\00\00"
  "\10\01\00\00\10\00\00\00" "\00\00\00\00\00\00\00\00")
(func (export "phasemeter:policy/policy@0.1.0#describe") (result i32)
  (i32.const 1024))
