tendril_suites(DEVICES cpu cuda SUITES
  activation adagrad adam adamax adamw adaptive_softmax amp batch_norm categorical cells_and_decoders
  channels_last clip_grad conv ctc dropout elementwise ema embedding gradcheck gradcheck_more half half_optimizers hooks
  init layer_norm lbfgs linear lion loss lstm module module_device module_state_dict more_activations more_layers
  more_losses multivariate_normal optimizer optimizer_state_dict packed pooling resnet rmsprop sgd survivors
  training transposed)
tendril_suites(LABELS gradcheck SUITES ctc gradcheck gradcheck_more multivariate_normal packed transposed)
tendril_suites(TIMEOUT 300 SUITES checkpoint half)
tendril_suites(LABELS smoke SUITES conv linear loss module sgd training)
tendril_suites(LABELS threads SUITES
  amp batch_norm categorical cells_and_decoders channels_last conv ctc dropout elementwise float32_lstm float32_steps
  gradcheck_more half half_optimizers init layer_norm linear more_layers multivariate_normal optimizer resnet threads
  unregistered)
