;; error: load.not_a_policy
;; message: both
;; when: load
;; world: both
