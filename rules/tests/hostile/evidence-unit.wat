;; error: invalid
;; message: recommendations[0].evidence has the unit '�[2J'
;; A terminal's control sequence as a unit.
(data (i32.const 4096) "\1b[2J")
(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
  (drop (call $recommendation))
  ;; evidence: "mig", 0, the unit at 3072
  (i32.store (i32.const 3072) (i32.const 336))
  (i32.store (i32.const 3076) (i32.const 3))
  (i32.store (i32.const 3088) (i32.const 4096))
  (i32.store (i32.const 3092) (i32.const 4))
  (i32.store (i32.const 2128) (i32.const 3072))
  (i32.store (i32.const 2132) (i32.const 1))
  (i32.const 1792))
