;; error: none
;; world: pricer-policy
