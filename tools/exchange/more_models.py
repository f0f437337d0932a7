"""More architectures for tools/exchange/generate.py --more: small configurations, random weights.
SPDX-License-Identifier: MIT"""
import torch

from models import CAUSAL, PATCHES, ROWS, T5, TEXT, hugging, ids, image, masked, text, vision

MORE = []
BART = dict(vocab_size=99, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
            decoder_attention_heads=4, encoder_ffn_dim=37, decoder_ffn_dim=37, max_position_embeddings=64)


def more(name, model, config, inputs, **options):
    hugging(name, model, config, inputs, **options)
    MORE.append(name)


def two(batch):
    return dict(text(batch), decoder_input_ids=ids(batch))


more("albert", "AlbertModel", "AlbertConfig", masked, embedding_size=16, **TEXT)
more("camembert", "CamembertModel", "CamembertConfig", masked, **TEXT)
more("deberta", "DebertaModel", "DebertaConfig", masked, relative_attention=True, pos_att_type="c2p|p2c", **TEXT)
more("deberta-v2", "DebertaV2Model", "DebertaV2Config", masked, relative_attention=True, pos_att_type="c2p|p2c",
     share_att_key=True, position_buckets=8, **TEXT)
more("convbert", "ConvBertModel", "ConvBertConfig", masked, embedding_size=32, **TEXT)
more("squeezebert", "SqueezeBertModel", "SqueezeBertConfig", masked, embedding_size=32, **TEXT)
more("mobilebert", "MobileBertModel", "MobileBertConfig", masked, embedding_size=16, intra_bottleneck_size=32,
     true_hidden_size=32, **TEXT)
more("funnel", "FunnelModel", "FunnelConfig", masked, vocab_size=99, block_sizes=[1, 1], d_model=32, n_head=4,
     d_head=8, d_inner=37, num_decoder_layers=1)
more("fnet", "FNetModel", "FNetConfig", lambda b: {"input_ids": ids(b)}, **TEXT)
more("layoutlm", "LayoutLMModel", "LayoutLMConfig", masked, **TEXT)
more("roformer", "RoFormerModel", "RoFormerConfig", masked, **TEXT)
more("megatron-bert", "MegatronBertModel", "MegatronBertConfig", masked, **TEXT)
more("xlnet", "XLNetModel", "XLNetConfig", text, vocab_size=99, d_model=32, n_layer=2, n_head=4, d_inner=37)
more("xlm", "XLMModel", "XLMConfig", text, vocab_size=99, emb_dim=32, n_layers=2, n_heads=4,
     max_position_embeddings=64)
more("ernie", "ErnieModel", "ErnieConfig", masked, **TEXT)
more("modernbert", "ModernBertModel", "ModernBertConfig", masked, pad_token_id=0, **TEXT)
more("bert-mlm", "BertForMaskedLM", "BertConfig", masked, **TEXT)
more("bert-qa", "BertForQuestionAnswering", "BertConfig", masked, **TEXT)
more("longformer", "LongformerModel", "LongformerConfig", masked, attention_window=4, **TEXT)
more("gptj", "GPTJForCausalLM", "GPTJConfig", text, vocab_size=99, n_embd=32, n_layer=2, n_head=4, n_positions=64,
     rotary_dim=4)
more("codegen", "CodeGenForCausalLM", "CodeGenConfig", text, vocab_size=99, n_embd=32, n_layer=2, n_head=4,
     n_positions=64, rotary_dim=4)
more("gpt-neo", "GPTNeoForCausalLM", "GPTNeoConfig", text, vocab_size=99, hidden_size=32, num_layers=2, num_heads=4,
     max_position_embeddings=64, attention_types=[[["global", "local"], 1]], intermediate_size=37)
more("gpt-bigcode", "GPTBigCodeForCausalLM", "GPTBigCodeConfig", text, vocab_size=99, n_embd=32, n_layer=2, n_head=4,
     n_positions=64)
more("phi", "PhiForCausalLM", "PhiConfig", text, **TEXT)
more("phi3", "Phi3ForCausalLM", "Phi3Config", text, pad_token_id=0, **CAUSAL)
more("gemma", "GemmaForCausalLM", "GemmaConfig", text, head_dim=8, **CAUSAL)
more("gemma3", "Gemma3ForCausalLM", "Gemma3TextConfig", text, head_dim=8, **CAUSAL)
more("falcon", "FalconForCausalLM", "FalconConfig", text, vocab_size=99, hidden_size=32, num_hidden_layers=2,
     num_attention_heads=4)
more("falcon-alibi", "FalconForCausalLM", "FalconConfig", text, vocab_size=99, hidden_size=32, num_hidden_layers=2,
     num_attention_heads=4, alibi=True)
more("starcoder2", "Starcoder2ForCausalLM", "Starcoder2Config", text, **CAUSAL)
more("stablelm", "StableLmForCausalLM", "StableLmConfig", text, **CAUSAL)
more("olmo", "OlmoForCausalLM", "OlmoConfig", text, **CAUSAL)
more("olmo2", "Olmo2ForCausalLM", "Olmo2Config", text, **CAUSAL)
more("cohere", "CohereForCausalLM", "CohereConfig", text, **CAUSAL)
more("granite", "GraniteForCausalLM", "GraniteConfig", text, **CAUSAL)
more("mpt", "MptForCausalLM", "MptConfig", text, vocab_size=99, d_model=32, n_layers=2, n_heads=4, max_seq_len=64)
more("smollm3", "SmolLM3ForCausalLM", "SmolLM3Config", text, pad_token_id=0, **CAUSAL)
more("qwen2-moe", "Qwen2MoeForCausalLM", "Qwen2MoeConfig", text, num_experts=4, moe_intermediate_size=24,
     shared_expert_intermediate_size=24, num_experts_per_tok=2, **CAUSAL)
more("qwen3-moe", "Qwen3MoeForCausalLM", "Qwen3MoeConfig", text, num_experts=4, moe_intermediate_size=24,
     num_experts_per_tok=2, head_dim=8, **CAUSAL)
more("nemotron", "NemotronForCausalLM", "NemotronConfig", text, **CAUSAL)
more("persimmon", "PersimmonForCausalLM", "PersimmonConfig", text, **TEXT)
more("biogpt", "BioGptForCausalLM", "BioGptConfig", text, **TEXT)
more("xglm", "XGLMForCausalLM", "XGLMConfig", text, vocab_size=99, d_model=32, num_layers=2, attention_heads=4,
     ffn_dim=37, max_position_embeddings=64)
more("ctrl", "CTRLLMHeadModel", "CTRLConfig", text, vocab_size=99, n_embd=32, n_layer=2, n_head=4, dff=37,
     n_positions=64)
more("openai-gpt", "OpenAIGPTLMHeadModel", "OpenAIGPTConfig", text, vocab_size=99, n_embd=32, n_layer=2, n_head=4,
     n_positions=64)
more("mamba", "MambaForCausalLM", "MambaConfig", lambda b: {"input_ids": ids(b)}, vocab_size=99, hidden_size=32,
     num_hidden_layers=2, state_size=4)
more("mamba2", "Mamba2ForCausalLM", "Mamba2Config", lambda b: {"input_ids": ids(b)}, vocab_size=99, hidden_size=32,
     num_hidden_layers=2, state_size=4, num_heads=8, head_dim=8, n_groups=1, chunk_size=4)
more("rwkv", "RwkvForCausalLM", "RwkvConfig", lambda b: {"input_ids": ids(b)}, vocab_size=99, hidden_size=32,
     num_hidden_layers=2, context_length=64)
more("recurrentgemma", "RecurrentGemmaForCausalLM", "RecurrentGemmaConfig", text, lru_width=32,
     attention_window_size=8, **TEXT)
more("deepseek-v2", "DeepseekV2ForCausalLM", "DeepseekV2Config", text, n_routed_experts=4, kv_lora_rank=8,
     q_lora_rank=8, qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=8, n_group=1, topk_group=1,
     num_experts_per_tok=2, moe_intermediate_size=24, **TEXT)
more("gpt-oss", "GptOssForCausalLM", "GptOssConfig", text, head_dim=8, num_local_experts=4, num_experts_per_tok=2,
     **CAUSAL)
more("mbart", "MBartModel", "MBartConfig", two, **BART)
more("pegasus", "PegasusModel", "PegasusConfig", two, **BART)
more("marian", "MarianModel", "MarianConfig", two, pad_token_id=1, **BART)
more("m2m100", "M2M100Model", "M2M100Config", two, **BART)
more("blenderbot", "BlenderbotModel", "BlenderbotConfig", two, **BART)
more("blenderbot-small", "BlenderbotSmallModel", "BlenderbotSmallConfig", two, **BART)
more("led", "LEDModel", "LEDConfig", two, vocab_size=99, d_model=32, encoder_layers=2, decoder_layers=2,
     encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=37, decoder_ffn_dim=37, attention_window=4)
more("prophetnet", "ProphetNetModel", "ProphetNetConfig", two, vocab_size=99, hidden_size=32, encoder_ffn_dim=37,
     decoder_ffn_dim=37, num_encoder_layers=1, num_decoder_layers=1, num_encoder_attention_heads=4,
     num_decoder_attention_heads=4, max_position_embeddings=64, ngram=2)
more("mt5", "MT5Model", "MT5Config", two, **T5)
more("umt5", "UMT5Model", "UMT5Config", two, **T5)
more("longt5", "LongT5Model", "LongT5Config", two, local_radius=4, **T5)
more("nllb-moe", "NllbMoeModel", "NllbMoeConfig", two, num_experts=4, **BART)
more("beit", "BeitModel", "BeitConfig", image(32), **PATCHES)
more("data2vec-vision", "Data2VecVisionModel", "Data2VecVisionConfig", image(32), **PATCHES)
more("vit-mae-dec", "ViTMSNModel", "ViTMSNConfig", image(32), **PATCHES)
more("ijepa", "IJepaModel", "IJepaConfig", image(32), **PATCHES)
more("siglip-vision", "SiglipVisionModel", "SiglipVisionConfig", image(32), **PATCHES)
more("siglip-text", "SiglipTextModel", "SiglipTextConfig", text, **TEXT)
more("clip", "CLIPModel", "CLIPConfig", lambda b: dict(text(b), **image(32)(b)), text_config=dict(TEXT,
     eos_token_id=2), vision_config=PATCHES, projection_dim=16)
more("blip-vision", "BlipVisionModel", "BlipVisionConfig", image(32), **PATCHES)
more("dinov2-reg", "Dinov2WithRegistersModel", "Dinov2WithRegistersConfig", image(32), hidden_size=32,
     num_hidden_layers=2, num_attention_heads=4, mlp_ratio=2, image_size=32, patch_size=8)
more("dinov3", "DINOv3ViTModel", "DINOv3ViTConfig", image(32), **PATCHES)
more("swinv2", "Swinv2Model", "Swinv2Config", image(32), image_size=32, patch_size=2, embed_dim=16, depths=[1, 2],
     num_heads=[2, 2], window_size=4)
more("convnextv2", "ConvNextV2Model", "ConvNextV2Config", image(64), hidden_sizes=[8, 16], depths=[1, 1],
     num_stages=2)
more("cvt", "CvtModel", "CvtConfig", image(64), embed_dim=[8, 16], num_heads=[1, 2], depth=[1, 2], patch_sizes=[7,
     3], patch_stride=[4, 2], patch_padding=[2, 1], mlp_ratio=[2, 2], attention_drop_rate=[0, 0], drop_rate=[0, 0],
     drop_path_rate=[0, 0], qkv_bias=[True, True], cls_token=[False, True], qkv_projection_method=["dw_bn", "dw_bn"],
     kernel_qkv=[3, 3], padding_kv=[1, 1], stride_kv=[2, 2], padding_q=[1, 1], stride_q=[1, 1])
more("poolformer", "PoolFormerModel", "PoolFormerConfig", image(64), num_encoder_blocks=2, depths=[1, 1],
     hidden_sizes=[8, 16], patch_sizes=[7, 3], strides=[4, 2], padding=[2, 1])
more("pvt", "PvtModel", "PvtConfig", image(64), image_size=64, num_encoder_blocks=2, depths=[1, 1],
     sequence_reduction_ratios=[4, 2], hidden_sizes=[8, 16], patch_sizes=[4, 2], strides=[4, 2],
     num_attention_heads=[1, 2], mlp_ratios=[2, 2])
more("regnet", "RegNetModel", "RegNetConfig", image(64), embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1],
     groups_width=4)
more("levit", "LevitModel", "LevitConfig", image(64), image_size=64, hidden_sizes=[16, 24, 32],
     num_attention_heads=[2, 2, 2], depths=[1, 1, 1], key_dim=[8, 8, 8])
more("mobilevit", "MobileViTModel", "MobileViTConfig", image(64), hidden_sizes=[24, 32, 40], neck_hidden_sizes=[8,
     12, 16, 24, 32, 40, 80], image_size=64)
more("mobilevitv2", "MobileViTV2Model", "MobileViTV2Config", image(64), image_size=64, base_attn_unit_dims=[16, 24,
     32])
more("mobilenet-v1", "MobileNetV1Model", "MobileNetV1Config", image(64), image_size=64, depth_multiplier=0.25,
     min_depth=8)
more("efficientnet-hf", "EfficientNetModel", "EfficientNetConfig", image(64), image_size=64, width_coefficient=0.25,
     depth_coefficient=0.5, hidden_dim=64)
more("focalnet", "FocalNetModel", "FocalNetConfig", image(32), image_size=32, patch_size=2, embed_dim=16, depths=[1,
     1], hidden_sizes=[16, 32], focal_levels=[2, 2], focal_windows=[3, 3])
more("dpt", "DPTForDepthEstimation", "DPTConfig", image(32), backbone_out_indices=[0, 1, 0, 1], neck_hidden_sizes=[8,
     8, 8, 8], fusion_hidden_size=16, reassemble_factors=[4, 2, 1, 0.5], **PATCHES)
more("glpn", "GLPNForDepthEstimation", "GLPNConfig", image(64), num_encoder_blocks=4, depths=[1, 1, 1, 1],
     sr_ratios=[8, 4, 2, 1], hidden_sizes=[8, 16, 16, 16], patch_sizes=[7, 3, 3, 3], strides=[4, 2, 2, 2],
     num_attention_heads=[1, 2, 2, 2], mlp_ratios=[2, 2, 2, 2], decoder_hidden_size=8)
more("depth-anything", "DepthAnythingForDepthEstimation", "DepthAnythingConfig",
     lambda b: {"pixel_values": torch.randn(b, 3, 28, 28)}, backbone_config=None, reassemble_hidden_size=32,
     neck_hidden_sizes=[8, 8, 8, 8], fusion_hidden_size=16, reassemble_factors=[4, 2, 1, 0.5], patch_size=14)
more("upernet", "UperNetForSemanticSegmentation", "UperNetConfig", image(64))
more("detr", "DetrModel", "DetrConfig", image(64), d_model=32, encoder_layers=1, decoder_layers=1,
     encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=37, decoder_ffn_dim=37, num_queries=5,
     use_timm_backbone=False, use_pretrained_backbone=False, backbone=None)
more("hubert", "HubertModel", "HubertConfig", lambda b: {"input_values": torch.randn(b, 400)}, vocab_size=99,
     hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=37, conv_dim=(16, 16),
     conv_stride=(4, 4), conv_kernel=(8, 8), num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=2)
more("wavlm", "WavLMModel", "WavLMConfig", lambda b: {"input_values": torch.randn(b, 400)}, vocab_size=99,
     hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=37, conv_dim=(16, 16),
     conv_stride=(4, 4), conv_kernel=(8, 8), num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=2)
more("sew", "SEWModel", "SEWConfig", lambda b: {"input_values": torch.randn(b, 400)}, vocab_size=99, hidden_size=32,
     num_hidden_layers=2, num_attention_heads=4, intermediate_size=37, conv_dim=(16, 16), conv_stride=(4, 4),
     conv_kernel=(8, 8), num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=2)
more("data2vec-audio", "Data2VecAudioModel", "Data2VecAudioConfig", lambda b: {"input_values": torch.randn(b, 400)},
     vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=37, conv_dim=(16,
     16), conv_stride=(4, 4), conv_kernel=(8, 8), num_conv_pos_embeddings=2, conv_pos_kernel_size=5,
     num_conv_pos_embedding_groups=2)
more("wav2vec2-ctc", "Wav2Vec2ForCTC", "Wav2Vec2Config", lambda b: {"input_values": torch.randn(b, 400)},
     vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=37, conv_dim=(16,
     16), conv_stride=(4, 4), conv_kernel=(8, 8), num_feat_extract_layers=2, num_conv_pos_embeddings=16,
     num_conv_pos_embedding_groups=2, do_stable_layer_norm=True, feat_extract_norm="layer")
more("ast", "ASTModel", "ASTConfig", lambda b: {"input_values": torch.randn(b, 24, 16)}, hidden_size=32,
     num_hidden_layers=2, num_attention_heads=4, intermediate_size=37, patch_size=8, max_length=24, num_mel_bins=16,
     frequency_stride=8, time_stride=8)
more("speech2text", "Speech2TextModel", "Speech2TextConfig", lambda b: {"input_features": torch.randn(b, 40, 8),
     "attention_mask": torch.ones(b, 40, dtype=torch.int64), "decoder_input_ids": ids(b)}, vocab_size=99, d_model=32,
     encoder_layers=1, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=37,
     decoder_ffn_dim=37, num_conv_layers=2, conv_kernel_sizes=[5, 5], conv_channels=16, input_feat_per_channel=8,
     input_channels=1, max_source_positions=64, max_target_positions=32)
more("encodec", "EncodecModel", "EncodecConfig", lambda b: {"input_values": torch.randn(b, 1, 320)}, hidden_size=8,
     num_filters=4, codebook_size=16, codebook_dim=8, upsampling_ratios=[4, 2], num_lstm_layers=1)
more("univnet", "UnivNetModel", "UnivNetConfig", lambda b: {"input_features": torch.randn(b, 4, 100),
     "noise_sequence": torch.randn(b, 4, 64)})
more("patchtst", "PatchTSTModel", "PatchTSTConfig", lambda b: {"past_values": torch.randn(b, 32, 2)},
     num_input_channels=2, context_length=32, patch_length=8, patch_stride=8, d_model=16, num_hidden_layers=1,
     num_attention_heads=2, ffn_dim=16)
more("patchtsmixer", "PatchTSMixerModel", "PatchTSMixerConfig", lambda b: {"past_values": torch.randn(b, 32, 2)},
     num_input_channels=2, context_length=32, patch_length=8, patch_stride=8, d_model=16, num_layers=1)
more("videomae", "VideoMAEModel", "VideoMAEConfig", lambda b: {"pixel_values": torch.randn(b, 4, 3, 16, 16)},
     hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=37, image_size=16, patch_size=8,
     num_frames=4)
more("timesformer", "TimesformerModel", "TimesformerConfig", lambda b: {"pixel_values": torch.randn(b, 4, 3, 16,
     16)}, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=37, image_size=16,
     patch_size=8, num_frames=4)
more("vivit", "VivitModel", "VivitConfig", lambda b: {"pixel_values": torch.randn(b, 4, 3, 16, 16)}, hidden_size=32,
     num_hidden_layers=2, num_attention_heads=4, intermediate_size=37, image_size=16, num_frames=4, tubelet_size=[2,
     8, 8])
more("vilt", "ViltModel", "ViltConfig", lambda b: dict(text(b), pixel_values=torch.randn(b, 3, 32, 32)), **dict(TEXT,
     **PATCHES))
more("perceiver", "PerceiverModel", "PerceiverConfig", lambda b: {"inputs": torch.randn(b, 6, 24)}, num_latents=4,
     d_latents=16, d_model=24, num_blocks=1, num_self_attends_per_block=1, num_self_attention_heads=2,
     num_cross_attention_heads=2)
more("decision", "DecisionTransformerModel", "DecisionTransformerConfig", lambda b: {"states": torch.randn(b, 5, 4),
     "actions": torch.randn(b, 5, 3), "rewards": torch.randn(b, 5, 1), "returns_to_go": torch.randn(b, 5, 1),
     "timesteps": torch.arange(5).repeat(b, 1), "attention_mask": torch.ones(b, 5)}, state_dim=4, act_dim=3,
     hidden_size=32, n_layer=1, n_head=2, max_ep_len=16)
more("sam-vision", "SamVisionModel", "SamVisionConfig", image(32), hidden_size=32, output_channels=8,
     num_hidden_layers=2, num_attention_heads=4, image_size=32, patch_size=8, window_size=2, global_attn_indexes=[1],
     mlp_ratio=2.0)
more("owlvit-vision", "OwlViTVisionModel", "OwlViTVisionConfig", image(32), **PATCHES)
more("vitdet", "VitDetModel", "VitDetConfig", image(32), hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
     mlp_ratio=2, image_size=32, patch_size=8, window_size=2, window_block_indices=[0])
more("hiera", "HieraModel", "HieraConfig", image(32), embed_dim=8, image_size=[32, 32], patch_stride=[4, 4],
     patch_size=[7, 7], patch_padding=[3, 3], num_heads=[1, 2], depths=[1, 1], embed_dim_multiplier=2.0,
     num_query_pool=1, query_stride=[2, 2], masked_unit_size=[4, 4], masked_unit_attention=[True, False])
more("bit", "BitModel", "BitConfig", image(64), embedding_size=8, hidden_sizes=[8, 16, 16, 16], depths=[1, 1, 1, 1],
     num_groups=2)
for n, f, size in (("tv.resnext50", "resnext50_32x4d", 64), ("tv.wide_resnet50", "wide_resnet50_2", 64),
    ("tv.shufflenet", "shufflenet_v2_x0_5", 64), ("tv.regnet_y", "regnet_y_400mf", 64), ("tv.regnet_x",
    "regnet_x_400mf", 64), ("tv.efficientnet_v2_s", "efficientnet_v2_s", 64), ("tv.swin_v2_t", "swin_v2_t", 64),
    ("tv.mobilenet_v3_large", "mobilenet_v3_large", 64), ("tv.maxvit_t", "maxvit_t", 224), ("tv.resnet50",
    "resnet50", 64), ("tv.vgg11_bn", "vgg11_bn", 32), ("tv.mnasnet1_0", "mnasnet1_0", 64), ("tv.squeezenet1_1",
    "squeezenet1_1", 64)):
    ROWS[n] = vision(f, size, num_classes=10)
    MORE.append(n)
ROWS["tv.inception_v3"] = vision("inception_v3", 128, num_classes=10, init_weights=True)
MORE.append("tv.inception_v3")
ROWS["tv.lraspp"] = vision("lraspp_mobilenet_v3_large", 64, "segmentation", num_classes=3, weights_backbone=None)
MORE.append("tv.lraspp")
ROWS["tv.deeplabv3_r50"] = vision("deeplabv3_resnet50", 64, "segmentation", num_classes=3, weights_backbone=None)
MORE.append("tv.deeplabv3_r50")


def video(name, function):
    def make():
        import torchvision
        net = getattr(torchvision.models.video, function)(weights=None, num_classes=10)
        return net, lambda batch: {"x": torch.randn(batch, 3, 8, 32, 32)}
    ROWS[name] = make
    MORE.append(name)


video("tv.r3d_18", "r3d_18")
video("tv.mc3_18", "mc3_18")
video("tv.r2plus1d_18", "r2plus1d_18")
