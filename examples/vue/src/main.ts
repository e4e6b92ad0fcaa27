import { createApp } from "vue";
import Article from "./Article.vue";

createApp(Article, { id: "1" }).mount("#shop");
