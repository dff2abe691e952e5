;; fault: load.not_a_policy
;; says: both
;; when: load
;; world: both
