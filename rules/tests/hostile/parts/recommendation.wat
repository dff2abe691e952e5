;; A window has too many flattened values for parameters: a pointer.
(type $recommend (func (param i32) (result i32)))
(data (i32.const 320) "test.action")
(data (i32.const 336) "mig")
(data (i32.const 344) "Share it")
(data (i32.const 352) "Share the GPU.")
(data (i32.const 368) "It idles.")
(data (i32.const 384) "GPU-0")
(data (i32.const 400) "\80\01\00\00\05\00\00\00")
;; ok, a list of one recommendation at 2048, no needs
(data (i32.const 1792) "\00\00\00\00" "\00\08\00\00" "\01\00\00\00")
;; recommendation: code +0, target +8, lever +12, title +20, action +28, rationale +36,
;; saving +48 +56 +64, confidence +72, evidence +80, gpus +88, kind +96, effort +97, reversible +98,
;; remediation +100 (is some), its kind +104 and parameters +112; 120 bytes
(data (i32.const 2048)
  "\40\01\00\00\0b\00\00\00" "\01\00\00\00" "\50\01\00\00\03\00\00\00"
  "\58\01\00\00\08\00\00\00" "\60\01\00\00\0e\00\00\00" "\70\01\00\00\09\00\00\00")
(data (i32.const 2136) "\90\01\00\00\01\00\00\00")
(func $recommendation (result i32)
  (f64.store (i32.const 2096) (f64.const 0.1))
  (f64.store (i32.const 2104) (f64.const 0.2))
  (f64.store (i32.const 2112) (f64.const 0.3))
  (f64.store (i32.const 2120) (f64.const 0.5))
  (i32.const 1792))
