"""Many profiles: `batch` analyses folders of reports into a `store`; `top` and `insights` read it.
`batch` imports `store`; `store` imports neither `batch` nor what reads it.
"""
